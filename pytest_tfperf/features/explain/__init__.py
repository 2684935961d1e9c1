"""Why a verdict was as it was."""
