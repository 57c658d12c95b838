"""Writers, limits and helpers of the tests; none of them uses the package's own archive code."""
