"""ARM stages: integer Relax in, TVM kernels and a static plan out."""
