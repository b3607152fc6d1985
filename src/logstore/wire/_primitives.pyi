"""What every message is made of: numbers, strings, arrays, structs and tagged fields as bytes."""
