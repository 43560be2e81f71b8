"""What was found out, and every way to show it; each renderer takes a `Report` and nothing else."""

from sizeup.report.rows import Group, OpRow, Port, Totals, Unknown
from sizeup.report.summary import OpRows, Report, report_of

__all__ = ["Group", "OpRow", "OpRows", "Port", "Report", "Totals", "Unknown", "report_of"]
