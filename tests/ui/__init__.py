"""Tests of the web interface: a package, so that a fixture can live as long as its tests and no longer."""
