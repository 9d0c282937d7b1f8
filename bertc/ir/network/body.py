"""The closed unions of bodies: as settings, and with every dimension known."""

from typing import Annotated

from pydantic import Field

from bertc.ir.network.bilstm import BiLstm, BiLstmBody
from bertc.ir.network.body_setting import Transformer
from bertc.ir.network.encoder import Encoder

BodyKind = Annotated[Transformer | BiLstm, Field(discriminator="kind")]
"""The setting."""
Body = Encoder | BiLstmBody
"""The body of a network, below its heads."""
