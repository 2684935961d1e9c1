"""Who hears of what a session found: each change once, over webhooks, chats, issues or a command.

For teams that do not read every night's log, and for the person on call.
It speaks when a session ends, and in `tfperf notify`.
"""
