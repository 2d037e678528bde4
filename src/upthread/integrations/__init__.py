"""The stores of agent frameworks, on upthread's record: a module and an extra for each framework.

Nothing else imports these, and each imports its framework; what they share is
`client.framework_record`. docs/frameworks.md says what is gained and what is different.
"""
