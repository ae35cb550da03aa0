"""The experiments: functions over the library; nothing in the library imports from here."""
