# It calls more of OpenSSL than Gyre does, which opens it when it is first called.
gyre_test_links(transport_net_test OpenSSL::SSL)
