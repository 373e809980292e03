"""Privacy-preserving outlier analysis."""
