# Up to eight ranks a training on what processors there are: beside other tests it takes minutes.
set_tests_properties(property_meshes_test PROPERTIES TIMEOUT 300)
