"""Six agents that did harm, each ungated, gated and benign: a refund, an invoice, a trade, an e-mail, a payout, a deletion.

The scenario modules are plain Python and import nothing: the same guarded tools run under twiceshy and under its peer.
"""
