"""What drafters, verifiers and the loop are made of; nothing here knows a drafter."""
