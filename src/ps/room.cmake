gyre_proto(ps ps)
