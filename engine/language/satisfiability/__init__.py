"""Predicates that no match can satisfy, found before any event comes."""
