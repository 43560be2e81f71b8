"""The report as one HTML file that opens in any browser, without a network."""
