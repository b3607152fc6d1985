"""What clients of a broker may do: the contract of an authorizer, and the questions of each request."""
