print("tidy: ok")
