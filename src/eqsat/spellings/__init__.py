"""Equal graphs made by running rules at random, in either direction."""
