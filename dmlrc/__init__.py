"""dmlrc"""
