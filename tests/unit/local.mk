# filled with its room
