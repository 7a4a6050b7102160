"""How much of the network trains, and what that does to the order of the losses."""
