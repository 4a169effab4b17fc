"""The four papers that sottovoce builds on, one room each: listings as printed, what of them holds, what we changed.

`dp_scd` (Damaskinos et al., AAAI 2021), `admm` (Hu et al.), `frank_wolfe` (Lou and Cheung, AAAI 2018) and `ldp` (Wang,
Smith and Xu, ALT 2019). The rooms use the public doors of the product; the product knows nothing of them.
"""
