"""Sparsity of derivatives: which elements of a Jacobian or Hessian can be other than zero, and how
few products with vectors determine all of them."""
