"""Planted truth: whole points in one process and in virtual time, in which every call lasts as long as was planted."""
