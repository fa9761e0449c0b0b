"""Trust: five questions about a trained model, answered from its metrics. No HTML."""
