"""What a party holds."""
