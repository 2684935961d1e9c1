"""The flow without pytest: how a workload is measured, confirmed, recorded and compared."""
