gyre_proto(control cluster)
