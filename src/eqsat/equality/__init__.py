"""Are two graphs equal? A proof by rules, an input at which they differ, or the smallest parts left to prove."""
