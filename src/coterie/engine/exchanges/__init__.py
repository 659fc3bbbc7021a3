"""Exchanges: who reads whose message, what is sent, what many readers make of it in one batched call."""
