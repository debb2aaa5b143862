"""What protocols with noise share: a party's account with its ledger, prices, replies, rows."""
