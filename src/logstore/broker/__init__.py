"""A broker: the topics of an open store, served to Kafka's clients over TCP.

>>> broker = logstore.broker.serve(store, "127.0.0.1:0")  # doctest: +SKIP
>>> broker.bootstrap  # doctest: +SKIP
'127.0.0.1:40521'
"""

from logstore.broker.access.authorizer import AclOperation, Authorizer, ClientIdentity, Principal, ResourceType
from logstore.broker.broker import Broker, serve

__all__ = ["AclOperation", "Authorizer", "Broker", "ClientIdentity", "Principal", "ResourceType", "serve"]
