"""The features of a bus, each in the folder that has its name."""
