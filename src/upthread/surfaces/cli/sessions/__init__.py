"""Sessions that agents have stored, chosen from all there are: to be kept."""
