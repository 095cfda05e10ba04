"""Labelled tensors: a function's products, sums and selections as an Einstein sum has them.

A function is read without its layout, transformed by one of two searches, and written again::

    expressions   the IR: operations on dimensions with labels, one object for each key
    kinds         what the ops of a signature have in common, and which dimensions run together
    reading       ops to expressions
    selectors     gathers, slices and their transposes, as matrices with a single 1 in each row
    cost          what products cost
    writing       expressions to ops

The searches are :mod:`jaxmlir.optimize.algebra.products`, for the order in which to multiply, and
:mod:`jaxmlir.optimize.algebra.factor_linear_sums`, for what sums of linear functions have in
common.  Each gives a tensor that is to take the place of a value of the program.
"""
