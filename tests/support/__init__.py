"""What tests and benchmarks share: data, servers, every fit, strange inputs. One file a kind of help."""
