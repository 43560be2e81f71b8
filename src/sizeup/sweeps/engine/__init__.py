"""Engines that run the tasks of a sweep: local workers, or Ray on one or several machines."""
