"""Products of many factors, in the order that costs least.

The order of multiplication changes the result of a product of matrices only by rounding, but it
changes the cost.  Two passes share this package: ``jaxpr-reassociate``, and ``jaxpr-gather-dot``,
which also treats row selections as factors.

    network      a product of expressions as an Einstein sum
    order        dynamic programming over the orders of multiplication, by the cost of each step
    trees        the products of a function
    rewrite      which of them to write in another order, or as sums of products
"""
