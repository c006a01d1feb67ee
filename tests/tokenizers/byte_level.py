def make_all(out, write, vectors, special):
    pass
