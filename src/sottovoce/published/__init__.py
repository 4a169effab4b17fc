"""What the papers print, for study and comparison; where its privacy claim does not hold, its page says why."""
