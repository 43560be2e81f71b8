"""What runs the tasks of a sweep: processes of this machine, or Ray on one or many."""
