"""The agents of one run: how they meet, talk, keep one time and take turns on their hosts."""
