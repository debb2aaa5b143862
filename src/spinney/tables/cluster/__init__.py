"""A table larger than one machine: its rows lie on the workers of the party's own cluster.

A *worker* is a process of the party that holds one part of the party's rows. It reads its part and
counts it with the code that counts any table; the party adds up the integers. So the answers are
those of one table, whatever the number of workers is.

```text
parts     which rows each part has, and how it is read
held      what a worker keeps of its part: keys, bins, the node of each row
repeats   equal rows in different parts, so that each row has the key that it has in one table
workers   the connection to Dask; the only module that knows it
asking    asks all parts, and again if a worker is lost
spread    the table, as a party sees it
```
"""
