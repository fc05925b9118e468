"""I/O workers: processes that own the sockets of clients, and exchange their bytes with the broker's event loop."""
