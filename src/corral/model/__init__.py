"""What things are: frozen values, standard library only, no I/O and no clock."""
