"""The rules of SimplifyExpr, one file per subject."""
