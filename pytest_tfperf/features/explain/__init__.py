"""Why a verdict was as it was.

For who doubts an outcome, or wonders what more runs would tell.
`tfperf explain`, from what the history holds; a session is not touched.
"""
