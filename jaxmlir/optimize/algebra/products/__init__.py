"""Products of many factors, in the order that costs least.

The result of a product of matrices does not depend on the order of multiplication, but for
rounding; what it costs does.  Two passes share what is here: ``jaxpr-reassociate``, and
``jaxpr-gather-dot`` that takes the selection of rows for a factor as well.

    network      the ops of a product read as an Einstein sum
    selectors    gathers, slices, their transposes: matrices with a single 1 in each row
    order        dynamic programming over the orders of multiplication, by what each step costs
    trees        the products of a function
    rewrite      which of them to write in another order, or as sums of products
"""

from jaxmlir.optimize.algebra.products.network import RULES as DENSE
from jaxmlir.optimize.algebra.products.network import is_mask
from jaxmlir.optimize.algebra.products.order import MIN_GAIN, SURE_GAIN
from jaxmlir.optimize.algebra.products.rewrite import rewrite_program
from jaxmlir.optimize.algebra.products.selectors import SELECTING
from jaxmlir.optimize.algebra.products.trees import Tree

__all__ = [
    "DENSE",
    "MIN_GAIN",
    "SELECTING",
    "SURE_GAIN",
    "Tree",
    "is_mask",
    "rewrite_program",
]
