"""Products of many factors, in the order that costs least.

The result of a product of matrices does not depend on the order of multiplication, but for
rounding; what it costs does.  Two passes share what is here: ``jaxpr-reassociate``, and
``jaxpr-gather-dot`` that takes the selection of rows for a factor as well.

    network      a product of expressions as an Einstein sum
    order        dynamic programming over the orders of multiplication, by what each step costs
    trees        the products of a function
    rewrite      which of them to write in another order, or as sums of products
"""
