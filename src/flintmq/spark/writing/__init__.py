"""What publishes the rows of a data frame: tasks, and the driver that commits what they did."""
