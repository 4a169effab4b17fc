"""The three forms of differentially private stochastic dual coordinate descent."""
