"""Labelled tensors: products, sums and selections with labelled dimensions, as in Einstein sums.

A function is read without its layout, transformed by one of two searches, and written again::

    expressions   the IR: operations on labelled dimensions, hash-consed
    kinds         the common properties of ops of a signature, and which dimensions run together
    reading       ops to expressions
    selectors     gathers, slices and their transposes, as matrices with a single 1 in each row
    cost          the cost of products
    writing       expressions to ops

The searches are :mod:`jaxmlir.optimize.algebra.products`, for the order of multiplication, and
:mod:`jaxmlir.optimize.algebra.factor_linear_sums`, for common factors in sums of linear functions.
Each returns a tensor that replaces a value of the program.
"""
